"""Secrets are found by their names, forms and places, and nothing else is hidden."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agents.client import redact
from agents.job.model import LAST_APPLIED

MARK = redact.MARK
TEXTS = {
    "password=hunter2, x": f"password={MARK} x",
    '{"db_password": "hun ter2", "a": 1}': f'{{"db_password": {MARK}, "a": 1}}',
    r"{\"token\":\"abc def\", \"a\": 1}": rf"{{\"token\":{MARK}, \"a\": 1}}",
    "export WANDB_API_KEY='a b'; run": f"export WANDB_API_KEY={MARK}; run",
    "_HOROVOD_SECRET_KEY=abc": f"_HOROVOD_SECRET_KEY={MARK}",
    "run --token abc --steps 5": f"run --token {MARK} --steps 5",
    "run --env=AWS_SECRET_ACCESS_KEY=abc": f"run --env=AWS_SECRET_ACCESS_KEY={MARK}",
    'password=ab"cd"ef hunt\'er': f"password={MARK} hunt'er",
    'TOKEN="abc': f"TOKEN={MARK}",
    'environ["TOKEN"] = "abc"; password := abc': f'environ["TOKEN"] = {MARK}; password := {MARK}',
    '{"cmd": "TOKEN=abc", "a": 1}': f'{{"cmd": "TOKEN={MARK}", "a": 1}}',
    "Authorization: Bearer abcdefgh": f"Authorization: {MARK}",
    "curl -H 'Authorization: Token abc' x": f"curl -H 'Authorization: {MARK}' x",
    "Cookie: a=b; session=abc\nx": f"Cookie: {MARK}\nx",
    "postgres://me:a/b@c@h/x": f"postgres://{MARK}@h/x",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----": MARK,
    "pull https://me:abc@h/x, git clone https://abc@h/x": f"pull https://{MARK}@h/x, git clone https://{MARK}@h/x",
    "GET /x?X-Amz-Signature=abc": f"GET /x?X-Amz-Signature={MARK}",
    "a -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- b": f"a {MARK} b",
    "-----BEGIN PRIVATE KEY-----\nabc": MARK,
    "abc\n-----END EC PRIVATE KEY-----\nb": f"{MARK}\nb",
    f"a\n{'Ab1+' * 16}\nb": f"a\n{MARK}\nb",
    f"logged in by ghp_{'a' * 36}.": f"logged in by {MARK}.",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc": MARK,
    "key AKIAABCDEFGHIJKLMNOP": f"key {MARK}",
    "curl -u me:abc http://x/": f"curl -u {MARK} http://x/",
    "/usr/bin/curl -sSu 'me:a b' x": f"/usr/bin/curl -sSu {MARK} x",
    "a && curl -ume:abc 'http://x/?a&b' | sh": f"a && curl -u{MARK} 'http://x/?a&b' | sh",
    'curl "http://x/?a=1&b=2" \\\n --user me:abc \\\n x': f'curl "http://x/?a=1&b=2" \\\n --user {MARK} \\\n x',
    'x=$(curl --user="me:abc" --proxy-user b:c x)': f"x=$(curl --user={MARK} --proxy-user {MARK} x)",
    'curl -H "Authorization: Basic abcdefgh" x': f'curl -H "Authorization: {MARK}" x',
    "mysql -uroot -pabc db; mysqldump -p'a b' db": f"mysql -uroot -p{MARK} db; mysqldump -p{MARK} db",
    "sshpass -p abc ssh -p 2222 me@h; sshpass -v -pabc scp x h:": (
        f"sshpass -p {MARK} ssh -p 2222 me@h; sshpass -v -p{MARK} scp x h:"
    ),
    "docker --config /t login -u me -p abc h/x": f"docker --config /t login -u me -p {MARK} h/x",
    "SSHPASS=abc sshpass -P word -e ssh h; curl -4u me:abc x; mysqlcheck -pabc": (
        f"SSHPASS={MARK} sshpass -P word -e ssh h; curl -4u {MARK} x; mysqlcheck -p{MARK}"
    ),
    "sshpass -P assword -p abc ssh h": f"sshpass -P assword -p {MARK} ssh h",
    "helm registry login h -p abc": f"helm registry login h -p {MARK}",
    "redis-cli -h x -a abc ping": f"redis-cli -h x -a {MARK} ping",
    "AWS_SECRET_ACCESS_KEY=abc aws s3 ls": f"AWS_SECRET_ACCESS_KEY={MARK} aws s3 ls",
    "x --password=abc --http-password=abc --password abc": (
        f"x --password={MARK} --http-password={MARK} --password {MARK}"
    ),
}
SHOWN = (
    "secretName: ssh-auth",
    "TOKEN_FILE=/var/run/token",
    "tokenExpirationSeconds: 3600",
    "tokenizer bert, passed: 5, author=Bob",
    "compass=north key=value PWD=/tmp",
    "see https://example.com/@me, https://example.com:8080/x",
    "rank 0 of 4 on pi-worker-0: secret santa",
    "mpirun -np 4 -x PASSWORDLESS_SSH=1 -x PATH -H a:2,b:2 python -u train.py",
    "ssh -p 2222 -u root w0; sshd -p 2222; sshpass -e ssh -p 2222 w0",
    "mysql -p -u me db; mpirun -pernode x",
    "curl -u me x; date -u +%H:%M; docker run -u 1000:1000 -p 80:80 x",
    "curl -o x http://x/ && python -u a:b",
    "docker login --password-stdin h < /token",
    "run --token-file /var/run/x --password-file=/x",
)


@pytest.mark.parametrize("text", TEXTS)
def test_secrets_in_texts(text: str) -> None:
    assert redact.text(text) == TEXTS[text]


@pytest.mark.parametrize("text", SHOWN)
def test_other_texts(text: str) -> None:
    assert redact.text(text) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "DB_PASS", "value": "abc"}, {"name": "DB_PASS", "value": MARK}),
        ({"name": "EPOCHS", "value": "5"}, {"name": "EPOCHS", "value": "5"}),
        (["run", "--api-key", "abc", "--fast"], ["run", "--api-key", MARK, "--fast"]),
        (["a", "-----BEGIN PRIVATE KEY-----", "abc"], [MARK]),
        (["curl", "-fsu", "me:a b", "x"], ["curl", "-fsu", MARK, "x"]),
        (
            ["curl", "--user=me:a b", "-H", "Authorization: Basic abc"],
            ["curl", f"--user={MARK}", "-H", f"Authorization: {MARK}"],
        ),
        (["mysql", "-pa b", "-h", "x"], ["mysql", f"-p{MARK}", "-h", "x"]),
        (["docker", "login", "-u", "me", "-p", "it's", 5], ["docker", "login", "-u", "me", "-p", MARK, 5]),
        (
            ["sh", "-c", "sshpass -p abc ssh w0; date", "-p", "2222"],
            ["sh", "-c", f"sshpass -p {MARK} ssh w0; date", "-p", "2222"],
        ),
        (["sshpass", "-p", "abc", "ssh", "-p", "2222"], ["sshpass", "-p", MARK, "ssh", "-p", "2222"]),
        (["mpirun", "-np", "2", "python", "-u", "a:b"], ["mpirun", "-np", "2", "python", "-u", "a:b"]),
        (
            {"args": ["-p", "abc", "ssh", "-p", "2222"], "command": ["sshpass"]},
            {"args": ["-p", MARK, "ssh", "-p", "2222"], "command": ["sshpass"]},
        ),
        ({"args": ["abc"], "command": ["run", "--token"]}, {"args": [MARK], "command": ["run", "--token"]}),
        ({"a": {"x.io/token": "abc", "managedFields": [1]}}, {"a": {"x.io/token": MARK}}),
        ({"secretKeyRef": {"name": "db", "key": "pass"}}, {"secretKeyRef": {"name": "db", "key": "pass"}}),
        ({"automountServiceAccountToken": False}, {"automountServiceAccountToken": False}),
        ({LAST_APPLIED: "{}"}, {LAST_APPLIED: MARK}),
    ],
)
def test_objects(value: Any, expected: Any) -> None:
    assert redact.value(value) == expected


@pytest.mark.parametrize(
    "part",
    [
        *("a-", "--token ", "x_", "token='", 'token="\\', "://", "-----END ", "Bearer ", "sk-", "a:/", "x://a:"),
        *("Cookie: ", "curl ", "curl '", 'curl "x" ', "mysql \\\n", "docker login ", "sshpass -v ", "-v/sshpass "),
    ],
)
def test_hostile_texts_take_no_time(part: str) -> None:
    began = time.process_time()
    redact.text(part * (60_000 // len(part)))
    assert time.process_time() - began < 2  # a quadratic pattern takes longer by far
