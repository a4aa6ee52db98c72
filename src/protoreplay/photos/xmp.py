"""Answers as keywords in XMP sidecars (`dc:subject`), which photo managers read beside a photo.

What a sidecar has already stays to the byte: a keyword is put in at its place in the text, which a parser finds.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

from protoreplay.core.errors import UserError

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
SUFFIX = ".xmp"

_NEW = f"""<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="{RDF}">
 </rdf:RDF>
</x:xmpmeta>
"""


@dataclass
class _Places:
    """Where things stand in a sidecar, in bytes.

    Attributes:
        keywords: that it has.
        bag: the prefix of RDF, the name of the list of keywords, and where it ends.
        end: the same of `rdf:RDF`.
        odd: keywords stand in a form that is not a list.
    """

    keywords: list[str] = field(default_factory=list)
    bag: tuple[str, str, int] | None = None
    end: tuple[str, str, int] | None = None
    odd: bool = False


def is_sidecar(path: Path) -> bool:
    """Whether a file is one, by its name."""
    return path.suffix.lower() == SUFFIX


def sidecars_of(photo: Path) -> list[Path]:
    """Those that are there: `photo.jpg.xmp`, as digiKam and darktable name it, and `photo.xmp`, as Lightroom does."""
    names = [photo.with_name(photo.name + SUFFIX), photo.with_suffix(SUFFIX)]
    return [name for name in dict.fromkeys(names) if name != photo and os.path.lexists(name)]


def sidecar_for(photo: Path) -> Path:
    """The one that a keyword goes into: one that is there, or `photo.jpg.xmp`."""
    return next(iter(sidecars_of(photo)), photo.with_name(photo.name + SUFFIX))


def write_keyword(photo: Path, keyword: str) -> Path | None:
    """Put a keyword into a photo's sidecar, which is made if there is none; None where it has the keyword already."""
    from protoreplay.core.files import write_whole

    sidecar = sidecar_for(photo)
    existing = sidecar.read_bytes() if sidecar.exists() else None
    try:
        content = keyword_added(existing, keyword)
    except UserError as error:
        raise UserError(f"{sidecar}: {error}") from None
    if content == existing:
        return None
    write_whole(sidecar.resolve(), content)
    return sidecar


def keyword_added(existing: bytes | None, keyword: str) -> bytes:
    """A sidecar with one keyword more, or the same where it has it; None is a new one."""
    text = _NEW.encode() if existing is None else existing
    found = _places(text)
    if keyword in found.keywords:
        return text
    if found.odd:
        raise UserError("its keywords are no list of XMP: left as it is")
    if found.bag:
        prefix = found.bag[0]
        return _put(text, *found.bag, f"<{prefix}li>{escape(keyword)}</{prefix}li>")
    if found.end is None:
        raise UserError("it has no rdf:RDF, so it is no XMP sidecar: left as it is")
    prefix = found.end[0]
    entry = (
        f' <{prefix}Description {prefix}about="" xmlns:dc="{DC}">\n   <dc:subject><{prefix}Bag>'
        f"<{prefix}li>{escape(keyword)}</{prefix}li></{prefix}Bag></dc:subject>\n  </{prefix}Description>\n "
    )
    return _put(text, *found.end, entry)


def keywords_in(sidecar: bytes) -> list[str]:
    """The keywords of a sidecar."""
    return _places(sidecar).keywords


def _put(text: bytes, prefix: str, name: str, at: int, added: str) -> bytes:
    if text.startswith(b"</", at):
        return text[:at] + added.encode() + text[at:]
    # <rdf:Bag/>, which ends here, is opened.
    return text[: at - 2] + f">{added}</{prefix}{name}>".encode() + text[at:]


def _places(text: bytes) -> _Places:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.namespace_prefixes = True
    found = _Places()
    open_tags: list[tuple[tuple[str, str], str]] = []
    words: list[str] = []

    def start(tag: str, attributes: dict[str, Any]) -> None:
        uri, name, prefix = _split(tag)
        open_tags.append(((uri, name), prefix))
        words.clear()
        found.odd |= any(_split(key)[:2] == (DC, "subject") for key in attributes)

    def end(_: str) -> None:
        (kind, prefix), at = open_tags.pop(), parser.CurrentByteIndex
        above = [tag for tag, _ in open_tags]
        if kind == (RDF, "li") and above[-2:-1] == [(DC, "subject")]:
            found.keywords.append("".join(words))
        elif kind[0] == RDF and kind[1] in ("Bag", "Seq", "Alt") and above[-1:] == [(DC, "subject")]:
            found.bag = (prefix, kind[1], at)
        elif kind == (DC, "subject"):
            found.odd |= found.bag is None
        elif kind == (RDF, "RDF"):
            found.end = (prefix, kind[1], at)
        words.clear()

    def refuse(*_: object) -> None:
        raise UserError("it declares a document type: left as it is")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = words.append, refuse
    try:
        text.decode()
        parser.Parse(text, True)
    except (expat.ExpatError, UnicodeDecodeError) as error:
        raise UserError(f"not XML in UTF-8 ({error}): left as it is") from None
    return found


def _split(tag: str) -> tuple[str, str, str]:
    """Namespace, name, and prefix with its colon."""
    parts = tag.split(" ")
    if len(parts) == 1:
        return "", tag, ""
    return parts[0], parts[1], f"{parts[2]}:" if len(parts) > 2 else ""


def without_sidecars(photos: Iterable[Path]) -> list[Path]:
    """Each photo once, whatever way leads to it, and no sidecars."""
    found: dict[Path, Path] = {}
    for photo in photos:
        if not is_sidecar(photo):
            found.setdefault(photo.absolute(), photo)
    return list(found.values())
