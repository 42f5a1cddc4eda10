"""Asking what serves HTTP beside us."""

import urllib.error
import urllib.request

PATIENCE_S = 30.0


def get(url: str) -> tuple[int, str]:
    """Return an answer's code and text, whatever the code. Raises URLError where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
