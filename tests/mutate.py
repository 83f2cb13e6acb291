"""A seeded mutator of the files that walkback reads: it knows JSON, JSON lines, TOML, safetensors and file systems.

Every mutation is a function of a `random.Random`, so a case is made again from its number.
"""

import copy
import json
import os
import random
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONG = "n" * 5000
TEXTS = (
    "", " ", "x", LONG, "[/x]", "[red]x", "[bold red on white]x[/]", ":smile:", "x\\", "\x1b[2J\x1b[31mred", "\x9b31m",
    "\x1b]0;title\x07", "a\nb  holds", "a\r\nb", "\u202egpj.exe", "a\u200b\u200db", "\ud800", "\udc9b", "\ufeffx", "\0",
    "\u2028x", "a" + "\u0301" * 300, "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "=cmd()|'x'!A0",
    "\\input{/etc/passwd}", "|a|b|", "../../../etc/passwd", "/dev/zero", "nan", "-Infinity", "1e999", "walkback.run/9",
    "%s%n", "{0}", "\u3164", "bp", "dfa", "bp k=0", "my.py:Mine", "a.py", "own/../b.py:X", "\x7f", "é", "ok",
    "diverged", "other width", "zero credit",
)  # fmt: skip
NUMBERS = (
    0, -0.0, 1, -1, 2, 0.5, 1.0000001, -1.5, 61.5, 1e-320, 5e-324, 1e-300, 1e300, 1e308, 1.7e308, -1e308, 3.7,
    2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**9, 10**12, 10**18, 10**30, 10**308, -(10**9),
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
RAW = (
    "9" * 400, "-" + "9" * 400, "9" * 5000, "1e999", "-1e999", "1e308", "-0", "0" * 20, "NaN", "Infinity", "-Infinity",
    "1" + "0" * 200000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 100_000,
    "[" * 300 + "]" * 300, "1.", "tru", '"\\ud800"', '"\\x"', "[" + "1," * 20_000 + "1]", "{}", "[]", "[[]]",
    '[{"a": [null]}]', "0x10", "'a'", "1e-999999999",
)  # fmt: skip
MARK = "@raw{}@"


class Raw:
    """Text that goes into the file as it is."""

    def __init__(self, text: str):
        self.text = text


def value(chance: random.Random) -> Any:
    """A value that somebody might have put in place of another."""
    kind = chance.randrange(6)
    if kind == 0:
        return chance.choice(TEXTS)
    if kind == 1:
        return Raw(chance.choice(RAW))
    if kind == 2:
        return chance.choice((None, True, False, [], {}, [None], {"a": 1}, [[1]], [1, "a", None], {"": {}}))
    return chance.choice(NUMBERS)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a tree of JSON."""
    found = [path] if path else []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, inside in items:
        found += places(inside, (*path, key))
    return found


def change(tree: Any, chance: random.Random) -> Any:
    """One change somewhere in a tree: a value replaced, dropped, doubled, moved or renamed."""
    paths = places(tree)
    if not paths or chance.random() < 0.02:
        return value(chance)
    *above, key = chance.choice(paths)
    inside = tree
    for step in above:
        inside = inside[step]
    kind = chance.randrange(10)
    if isinstance(inside[key], (int, float)) and chance.random() < 0.4:
        inside[key] = chance.choice(NUMBERS)
    elif isinstance(inside[key], str) and chance.random() < 0.4:
        inside[key] = chance.choice(TEXTS)
    elif kind == 0:
        del inside[key]
    elif kind == 1 and isinstance(inside, dict):
        inside[chance.choice(TEXTS) if chance.random() < 0.7 else key + "x"] = inside.pop(key)
    elif kind == 1:
        inside.insert(key, inside[key])
    elif kind == 2 and isinstance(inside, dict):
        inside[chance.choice((*TEXTS, "L", "depth", "config", "seed", "log", "results"))] = value(chance)
    elif kind == 2:
        inside += [inside[key]] * (2000 if isinstance(inside[key], (int, float)) else 2)
    elif kind == 3 and isinstance(inside[key], (int, float)) and not isinstance(inside[key], bool):
        now = inside[key]
        inside[key] = chance.choice((-now, now * 1e6, str(now), [now], now + 0.5))
    elif kind == 4:
        inside[key] = {"twice": inside[key]} if chance.random() < 0.5 else [inside[key], inside[key]]
    elif kind == 5:  # the same key twice, in the text
        inside[key] = Raw(f'{written(inside[key])}, "{key}": {written(value(chance))}')
    elif kind == 6:
        other = chance.choice(paths)
        there = tree
        for step in other:
            there = there[step] if not isinstance(there, Raw) else there
        inside[key] = copy.deepcopy(there)
    else:
        inside[key] = value(chance)
    return tree


def written(tree: Any, ascii_only: bool = True) -> str:
    """A tree as JSON text, with what is `Raw` as it is."""
    raws: list[str] = []

    def marked(thing: Any) -> Any:
        if isinstance(thing, Raw):
            raws.append(thing.text)
            return MARK.format(len(raws) - 1)
        if isinstance(thing, dict):
            return {key: marked(inside) for key, inside in thing.items()}
        return [marked(inside) for inside in thing] if isinstance(thing, list) else thing

    text = json.dumps(marked(tree), ensure_ascii=ascii_only)
    for number, raw in enumerate(raws):
        text = text.replace(json.dumps(MARK.format(number)), raw)
    return text


def as_json(content: bytes, chance: random.Random) -> bytes:
    """A JSON file with one to three changes in its tree."""
    tree = json.loads(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if isinstance(tree, (dict, list)):
            tree = change(tree, chance)
    return written(tree, ascii_only=chance.random() < 0.7).encode(errors="surrogatepass")


def one_line(lines: list[Any], kinds: int, chance: random.Random) -> tuple[int, int]:
    """A line dropped (kind 0) or doubled (1), or left to the caller: its place, and one of so many kinds."""
    place = chance.randrange(len(lines))
    kind = chance.randrange(kinds)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(place, lines[place])
    return place, kind


def as_lines(content: bytes, chance: random.Random) -> bytes:
    """JSON lines: one of them changed, dropped, doubled or moved."""
    lines = content.splitlines()
    place, kind = one_line(lines, 8, chance)
    if kind == 2:
        chance.shuffle(lines)
    elif kind == 3:
        lines.insert(place, chance.choice((b"", b"null", b"[]", b"{}", b"\xff", b"7", RAW[12].encode())))
    elif kind > 3:
        for at in range(len(lines)) if kind == 4 else [place]:
            lines[at] = as_json(lines[at], chance)
    return b"\n".join(lines) + b"\n" * (chance.random() < 0.9)


def as_bytes(content: bytes, chance: random.Random) -> bytes:
    """What happens to any file on its way: cut off, flipped, put into another encoding, emptied."""
    kind = chance.randrange(14)
    at = chance.randrange(len(content) + 1)
    if kind < 3:
        return content[:at]
    if kind == 3:
        flipped = bytearray(content)
        for _ in range(chance.choice((1, 2, 20))):
            if flipped:
                flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        return bytes(flipped)
    made: dict[int, Callable[[], bytes]] = {
        4: lambda: b"\xef\xbb\xbf" + content, 5: lambda: content.replace(b"\n", b"\r\n"), 6: lambda: b"",
        7: lambda: content[:at] + b"\0" * 3 + content[at:], 8: lambda: content[:at] + b"\xff\xfe" + content[at:],
        9: lambda: content.decode(errors="replace").encode("utf-16"), 10: lambda: content + content,
        11: lambda: bytes(chance.randrange(256) for _ in range(200)), 12: lambda: content[at:],
        13: lambda: content[:at] + chance.choice(RAW).encode() + content[at:],
    }  # fmt: skip
    return made[kind]()


def as_safetensors(content: bytes, chance: random.Random) -> bytes:
    """A checkpoint: the length of its header, the header, the state in its metadata, or its numbers."""
    size = struct.unpack("<Q", content[:8])[0]
    header, numbers = json.loads(content[8 : 8 + size]), content[8 + size :]
    kind = chance.randrange(6)
    if kind == 0:
        length = chance.choice((0, 1, size - 1, size + 1, 10**9, 2**40, 2**63, 2**64 - 1))
        return struct.pack("<Q", length) + content[8:]
    if kind == 1:
        header = change(header, chance)
    elif kind == 2:
        name = chance.choice([key for key in header if key != "__metadata__"])
        shape, (start, end) = header[name]["shape"], header[name]["data_offsets"]
        header[name] |= chance.choice((
            {"dtype": chance.choice(("F64", "I64", "BOOL", "U8", "F16", "BF16", "F8_E4M3", "X9", ""))},
            {"shape": chance.choice(([], [0], [10**9, 10**9], [*shape, 1], shape[::-1], [-1], [2**63]))},
            {"data_offsets": chance.choice(([start, 10**12], [end, start], [0, 0], [-4, 0], [start + 4, end + 4]))},
        ))  # fmt: skip
    elif kind == 3:
        poison = struct.pack("<f", chance.choice((float("nan"), float("inf"), 1e38, -0.0)))
        at = 4 * chance.randrange(len(numbers) // 4)
        numbers = numbers[:at] + poison + numbers[at + 4 :]
    else:
        about = json.loads(header["__metadata__"]["walkback"])
        if kind == 4 and isinstance(about.get("state"), dict):
            about["state"] = change(about["state"], chance)
        else:
            about = change(about, chance)
        header["__metadata__"]["walkback"] = written(about)
    text = written(header).encode(errors="surrogatepass")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + numbers


def as_toml(content: bytes, chance: random.Random) -> bytes:
    """A TOML file: a line dropped, doubled, or with another value."""
    lines = content.decode().splitlines()
    place, kind = one_line(lines, 4, chance)
    if kind > 1:
        key = lines[place].partition("=")[0]
        lines[place] = f"{key if kind == 2 else chance.choice(TEXTS)}= {written(value(chance))}"
    return "\n".join(lines).encode(errors="surrogatepass")


def another_thing(path: Path, chance: random.Random, outside: Path) -> None:
    """Something else where the file should be; nothing in it may be opened and waited for, or written through."""
    path.unlink(missing_ok=True)
    kind = chance.randrange(9)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        path.symlink_to(path.name)  # a loop
    elif kind == 2:
        os.mkfifo(path)
    elif kind == 3:
        path.symlink_to("/dev/zero")
    elif kind == 4:
        path.symlink_to(path.parent / "nowhere")
    elif kind == 5:
        path.symlink_to(outside)
    elif kind == 6:
        with path.open("wb") as file:
            file.truncate(6 << 30)  # sparse: it takes no room
    elif kind == 7:
        here = Path.cwd()
        os.chdir(path.parent)  # the address of a socket is short
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
        finally:
            os.chdir(here)
    # else: it is not there


READERS = {".json": as_json, ".jsonl": as_lines, ".safetensors": as_safetensors, ".toml": as_toml}


def mutate(path: Path, chance: random.Random, outside: Path) -> None:
    """Put a mutated file in place of a sound one."""
    if chance.random() < 0.06:
        another_thing(path, chance, outside)
        return
    content = path.read_bytes()
    how = as_bytes if chance.random() < 0.2 else READERS[path.suffix]
    path.unlink()
    path.write_bytes(how(content, chance))
