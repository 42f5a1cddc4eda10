/* What sshd-start checks before sshd does. Each check returns only if sshd can work. */
#ifndef START_CHECKS_H
#define START_CHECKS_H

#include <stdbool.h>

/* The absolute path of sshd, which it wants for itself: what was asked for, or where distributions have it. */
char *find_sshd(const char *given);

/* With this key; as this uid, whose name is returned ("" where only sshd knows it); with these capabilities; at an
 * address as sshd -T writes it (0.0.0.0:22, [::]:22). */
void check_key(const char *key);
const char *check_account(void);
void check_capabilities(void);
void check_address(const char *sshd, char *address);

/* Ends if this sshd could not be executed because of the file's own capabilities. */
void check_own_capabilities(const char *sshd);

/* Whether sshd without PAM would refuse the account, as its password is locked. Only root can see that. */
bool is_locked(const char *name);

#endif
