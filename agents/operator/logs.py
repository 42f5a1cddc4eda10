"""Log lines as logfmt or JSON, with the job that they are about."""

from __future__ import annotations

import json
import logging
import sys
import time

from agents.common.text import printable

_FIELDS = ("job", "code")  # optional attributes of a record


class Formatter(logging.Formatter):
    """`time=… level=info msg="…" job=NAMESPACE/NAME`, or the same as a JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback is a field of it."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "msg": printable(record.getMessage()),
        }
        fields |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        if self._as_json:
            return json.dumps(fields)
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in fields.items())


def set_up(level: str, *, as_json: bool) -> None:
    """Have all logging of this process go to stderr in this form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(as_json=as_json))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # callers report lost connections


def _quoted(text: str) -> str:
    if text and text.isprintable() and not any(char in ' "=\\' for char in text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
