"""What the default install leaves out: packages that only research needs, and the command that brings them."""

RESEARCH_MODULES = frozenset({"cloudpickle", "jinja2", "matplotlib", "pooch", "requests", "scipy", "sklearn", "torch"})
"""Top-level modules of the extra `research`."""


def research_remedy(error: ModuleNotFoundError) -> str | None:
    """What to do about a module that is not installed, in a few words; None if it is not one of research."""
    module = (error.name or "").partition(".")[0]
    if module not in RESEARCH_MODULES:
        return None
    name = {"sklearn": "scikit-learn", "torch": "PyTorch"}.get(module, module)
    return f"needs {name}, which is not installed: pip install 'protoreplay[research]'"
