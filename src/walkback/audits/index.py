"""The index: judgements that were made before, found again by the digest of everything that they rest on.

A key is a digest of every byte of the run folders behind a judgement, of how it is judged, and of walkback's own code.
So the index is never trusted over the folders: they are read each time, and a folder that changed has another digest.
It is kept in the user's cache (WALKBACK_CACHE), not beside the runs, because whoever sends runs could send an index
along. It is derived: deleted, torn or of another version it is made again, and where it cannot be written there is
none.

JSON lines: a head, then one line per judgement and per folder that was found possible, each with its own checksum.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pydantic

from walkback.checks import CHECKS, Judgement
from walkback.checks.judge import read_judgement
from walkback.data.cache import shelf
from walkback.errors import RecordError
from walkback.files import replace_whole

SCHEMA = "walkback.index/1"
FEW = 300  # runs: fewer are judged anew each time, within seconds
LARGEST = 1 << 30  # bytes that are read: an index of 10,000 runs has some 50 million


class Index:
    """What was judged before of the runs in some folders. `open_index` opens it; `close` writes what is new."""

    def __init__(self, file: Path | None):
        self.file = file
        self._judgements: dict[str, tuple[int, int] | bytes] = {}  # by key: where its line stands, or the line
        self._possible: set[str] = set()
        self._used: set[str] = set()
        self._changed = False
        self._read()

    def judgement(self, key: str) -> Judgement | None:
        """The judgement of that key, if there is one and its line is whole."""
        place = self._judgements.get(key)
        if place is None:
            return None
        text = _text(place if isinstance(place, bytes) else self._line(place))
        head = _head(key)
        try:
            judgement = read_judgement(text[len(head) : -1] if text.startswith(head) else b"")
        except pydantic.ValidationError:
            del self._judgements[key]
            return None
        self._used.add(key)
        return judgement

    def put(self, key: str, judgement: Judgement) -> None:
        """Keep a judgement."""
        self._judgements[key] = _checked_text(_head(key) + judgement.text().encode() + b"}")
        self._used.add(key)
        self._changed = True

    @property
    def knows_any(self) -> bool:
        """Whether any folder is known by its digest."""
        return bool(self._possible)

    def is_possible(self, digest: bytes) -> bool:
        """Whether a folder of that digest was read in full before, and was found possible."""
        return digest.hex() in self._possible

    def found_possible(self, digest: bytes) -> None:
        """Note that a folder of that digest was."""
        self._changed |= digest.hex() not in self._possible
        self._possible.add(digest.hex())

    def close(self, digests: Iterable[bytes]) -> None:
        """Write it, if it changed: what was used this time, and which of these folders are possible. Never fails."""
        kept = {digest.hex() for digest in digests} & self._possible
        if self.file is None or not self._changed:
            return
        lines = [_checked({"schema": SCHEMA, "code": code_print()}), _checked({"possible": sorted(kept)})]
        for key in sorted(self._used):
            place = self._judgements[key]
            lines.append(place if isinstance(place, bytes) else self._line(place))
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            replace_whole(self.file, b"".join(lines))  # renamed into place: of two writers one wins, whole
        except (OSError, RecordError):
            return

    def _read(self) -> None:
        """Where the lines are; nothing where there is no index, or one of another version, or a torn one."""
        place = 0
        for number, line in enumerate(self._lines()):
            body = _body(line) if number < 2 else None
            if number == 0 and (body is None or (body.get("schema"), body.get("code")) != (SCHEMA, code_print())):
                return
            if number == 1 and body is not None:
                possible = body.get("possible")
                self._possible = set(map(str, possible)) if isinstance(possible, list) else set()
            if number > 1:
                key = line[KEY_AT : KEY_AT + 64].decode(errors="replace")
                self._judgements[key] = (place, len(line))
            place += len(line)

    def _lines(self) -> Iterator[bytes]:
        if self.file is None:
            return
        try:
            if self.file.is_symlink() or not self.file.is_file() or self.file.stat().st_size > LARGEST:
                return
            with self.file.open("rb") as opened:
                yield from opened
        except OSError:
            return

    def _line(self, place: tuple[int, int]) -> bytes:
        """The line that stood there; whoever replaced the file meanwhile is found by its checksum."""
        assert self.file is not None
        try:
            with self.file.open("rb") as opened:
                opened.seek(place[0])
                return opened.read(place[1])
        except OSError:
            return b""


def _checked(body: object) -> bytes:
    """A line with its checksum in front."""
    return _checked_text(json.dumps(body, separators=(",", ":")).encode())


def _checked_text(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode() + b" " + text + b"\n"


def _head(key: str) -> bytes:
    """What the text of a judgement's line begins with."""
    return f'{{"key":"{key}","judgement":'.encode()


KEY_AT = len(hashlib.sha256().hexdigest()) + len(' {"key":"')


def _text(line: bytes) -> bytes:
    """The text of a line, if it is whole; else nothing."""
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    return text if hashlib.sha256(text).hexdigest().encode() == checksum else b""


def _body(line: bytes) -> dict[str, object] | None:
    """What a line holds, if it is whole."""
    text = _text(line)
    body = json.loads(text) if text else None
    return body if isinstance(body, dict) else None


def open_index(paths: Sequence[Path], runs: int) -> Index:
    """The index of the runs that these paths hold; one that keeps nothing for few runs, or with a check of your own."""
    if runs < FEW or own_checks() or os.environ.get("WALKBACK_INDEX") == "no":
        return Index(None)
    try:
        name = digest_of_parts(*(os.path.realpath(path) for path in paths))
        return Index(shelf() / "judged" / f"{name[:32]}.jsonl")
    except (OSError, ValueError):
        return Index(None)


def own_checks() -> list[str]:
    """The checks that somebody registered who is not us: what they look at is not known."""
    return [name for name in CHECKS.names() if not type(CHECKS.get(name)).__module__.startswith("walkback.")]


def digest_of_parts(*parts: str | bytes) -> str:
    """One digest of several things, told apart by their lengths."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


@cache
def code_print() -> str:
    """A digest of walkback's own code and of what runs it: another version judges anew."""
    root = Path(__file__).parent.parent
    code = [part for file in sorted(root.rglob("*.py")) for part in (str(file.relative_to(root)), file.read_bytes())]
    return digest_of_parts(sys.version, pydantic.VERSION, *code)
