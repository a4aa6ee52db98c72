"""Which source a run is made of: that of its method, of the encoder it trains, and of its stream."""

from typing import Any

from protoreplay.core.registry import is_in_file
from protoreplay.core.settings import Settings
from protoreplay.core.source_digest import digest_of, roots_of, session_digest
from protoreplay.encoders.registry import ENCODERS, resolved
from protoreplay.experiments.run_config import CodePart
from protoreplay.methods import presets, registry
from protoreplay.streams.protocols import Protocol


def code_of_run(protocol: Protocol, method: str, settings: Settings, features: bool = False) -> dict[str, CodePart]:
    """By `method`, `encoder` and `protocol`, their source; what cannot be told is left out.

    With `features`, those of a frozen encoder, which its fingerprint tells, are what the method learns from.
    """
    found = {
        "method": _part(registry.get_method(method, features).method, presets.split_name(method)[0]),
        "protocol": _protocol_part(protocol),
    }
    encoder = None if features else getattr(settings, "encoder", None)
    if isinstance(encoder, str) and (encoder in ENCODERS or is_in_file(encoder)):
        found["encoder"] = _part(resolved(ENCODERS.get(encoder)), encoder)
    return {name: part for name, part in sorted(found.items()) if part is not None}


def _part(thing: Any, name: str) -> CodePart | None:
    roots = roots_of(thing, name)
    digest = digest_of(roots) if roots else session_digest(thing)
    return None if digest is None else CodePart(roots=roots, digest=digest)


def _protocol_part(protocol: Protocol) -> CodePart | None:
    """How the stream is drawn, and how its data is read; what the data is, `shots.json` tells by a digest."""
    roots = (*roots_of(type(protocol), protocol.name), *roots_of(Protocol))
    roots = tuple(dict.fromkeys((*roots, *roots_of(protocol.dataset.load, protocol.data))))
    digest = digest_of(roots)
    return None if digest is None else CodePart(roots=roots, digest=digest)
