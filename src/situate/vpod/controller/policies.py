"""The predicates and priorities of two ConfigMaps, applied as they change; an invalid one changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from situate.kube.events import WARNING, RecordEvent, reference
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.resources import CONFIGMAPS
from situate.vpod.config.settings import StatefulSetSettings
from situate.vpod.controller.informers import Informers
from situate.vpod.model.options import Options
from situate.vpod.policy.configmap import parse_policy


class Policies:
    """The policies of the two ConfigMaps; Knative's defaults until a ConfigMap has been valid once."""

    def __init__(
        self, watched: Informers, settings: StatefulSetSettings, record: RecordEvent, changed: Callable[[], None]
    ) -> None:
        """Watch the ConfigMaps. `changed` is called after a policy is applied."""
        options: Options = settings.options()
        self.placing = options.placing
        self.removing = options.removing
        self._settings = settings
        self._record = record
        self._on_change = changed
        self._log = structlog.get_logger().bind(controller="vpod", statefulset=options.statefulset)
        self._store = watched.policies.store if watched.policies is not None else None
        if self._store is not None:
            self._store.on_change(lambda _, new: self._apply_config_map(new))

    def reconfigure(self, settings: StatefulSetSettings) -> None:
        """Apply settings that possibly name other ConfigMaps.

        A valid ConfigMap takes effect at once. Rule B15.
        """
        before, self._settings = self._settings, settings
        shipped: Options = settings.options()
        changed = set()
        if settings.scheduler_config != before.scheduler_config:
            self.placing = shipped.placing
            changed.add(settings.scheduler_config)
        if settings.descheduler_config != before.descheduler_config:
            self.removing = shipped.removing
            changed.add(settings.descheduler_config)
        if self._store is not None:
            for found in self._store.list():
                if found.metadata.name in changed:
                    self._apply_config_map(found)
        elif settings.policy == "policy" and (settings.scheduler_config or settings.descheduler_config):
            self._log.warning(
                "ConfigMaps of the policy not watched, Knative's defaults apply",
                next_step="restart the process, because `policy` had another value at the start",
            )

    def _apply_config_map(self, found: ConfigMap | None) -> None:
        """Apply a changed ConfigMap. After a deletion, the last policy stays in force."""
        if found is None or found.metadata.name not in (
            self._settings.scheduler_config,
            self._settings.descheduler_config,
        ):
            return
        parsed = parse_policy(found.data)
        for note in parsed.notes:
            self._log.info("part of a policy ignored", configmap=found.metadata.name, note=note)
        if parsed.policy is None:
            mistakes = "; ".join(map(str, parsed.mistakes))
            self._log.error(
                "policy invalid, last valid policy stays in force", configmap=found.metadata.name, mistakes=mistakes
            )
            message = f"the policy is invalid, so the last valid policy stays in force: {mistakes}"
            self._record(reference(CONFIGMAPS, found), WARNING, "ConfigInvalid", message)
            return
        if found.metadata.name == self._settings.scheduler_config:
            self.placing = parsed.policy
        if found.metadata.name == self._settings.descheduler_config:
            self.removing = parsed.policy
        self._on_change()
