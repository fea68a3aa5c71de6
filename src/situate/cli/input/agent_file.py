"""Read the configuration file of `situate vm agent`, for the agent and for `situate manifests vm-agent`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from situate.cli.input.file_kinds import AGENT, wrong_kind_of_text
from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.overrides import with_overrides, with_sources
from situate.objects.settings.section import Mistake, parse_section
from situate.objects.settings.yaml_text import load_yaml
from situate.runtime.configuration.file import BadConfiguration, flag_overrides
from situate.vm.agent.model.settings import AgentSettings


def agent_settings(file: Path | None, assignments: Iterable[str]) -> AgentSettings:
    """Return the agent's settings. Raises `BadConfiguration` with every mistake, `WrongInput` for a bad file."""
    text = ""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as problem:
            raise WrongInput(f"{file}: cannot be read ({problem}); name the agent's configuration with -f") from None
    source = "the command line" if file is None else str(file)
    data, mistakes = load_yaml(text)
    if mistakes:
        raise BadConfiguration(source, _explain_mistakes(text, mistakes))
    overrides, wrong = flag_overrides(assignments)
    data, unfit = with_overrides({} if data is None else data, overrides)
    settings, mistakes = parse_section(data, AgentSettings)
    if settings is None or wrong or unfit:
        raise BadConfiguration(source, (*wrong, *unfit, *_explain_mistakes(text, with_sources(mistakes, overrides))))
    return settings


def _explain_mistakes(text: str, mistakes: tuple[Mistake, ...]) -> tuple[Mistake, ...]:
    """Return the mistakes, or only one for a file of another kind."""
    of_another_kind = wrong_kind_of_text(text, AGENT) if mistakes else None
    return mistakes if of_another_kind is None else (of_another_kind,)
