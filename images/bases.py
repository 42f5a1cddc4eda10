"""Pin the base images to what their tags are today: `make base-digests`, or `python -m images.bases`.

The Docker engine asks the registry for each tag's digest, which is that of its list of all architectures; nothing is
pulled. Written into the Dockerfiles, it is what is built from until the next time.
"""

from __future__ import annotations

import os
import sys

from . import catalog
from .engine import Engine, EngineError


def main() -> int:
    """Write today's digests into all Dockerfiles; return the exit code."""
    paths = {os.path.join(image.context, image.dockerfile) for image in catalog.IMAGES.values()}
    try:
        engine = Engine()
        found: dict[str, str] = {}
        for path in sorted(paths):
            with open(path, encoding="utf-8") as file:
                text = changed = file.read()
            for pinned in catalog.bases_in(text).values():
                tag = pinned.partition("@")[0]
                found[tag] = found.get(tag) or f"{tag}@{engine.digest(tag)}"
                changed = changed.replace(f"={pinned}\n", f"={found[tag]}\n")
            if changed != text:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(changed)
    except EngineError as error:
        sys.stderr.write(f"images: {error}\n")
        return 1
    sys.stdout.write("".join(f"{one}\n" for one in sorted(found.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
