"""The safety guards of the permit port: who is answered, when, and what is told."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_CALLERS, _PERMITS = "tests/vm/server/test_callers.py", "tests/vm/server/test_permits.py"
_CERTIFICATES = "tests/vm/server/test_certificates.py"
_EXPLAINING = "tests/vm/server/test_explaining.py"

VM_SERVER_GUARDS = (
    Mutation(
        "vm-permit-token",
        "nobody is answered without a service account's token (B44)",
        "vm/server/answering.py",
        "        await self._known(self._callers.check(request.headers, peer, () if pod is None else (pod,)))\n"
        "        answer = read",
        "        answer = read",
        (_CALLERS,),
    ),
    Mutation(
        "vm-permit-account",
        "a user's token is no service account's (B44)",
        "vm/server/callers.py",
        "        if not user.username.startswith(SERVICE_ACCOUNT):",
        "        if False:",
        (_CALLERS,),
    ),
    Mutation(
        "vm-permit-own-node",
        "without a token only a pod's own node is answered, and only with compat (B44)",
        "vm/server/callers.py",
        "any(_same(each.status.host_ip, peer) for each in pods)",
        "any(each.status.host_ip for each in pods)",
        (_CALLERS,),
    ),
    Mutation(
        "vm-explain-token",
        "nothing is explained to strangers (B44)",
        "vm/server/answering.py",
        "                pod = self._pods().get(name, namespace)\n"
        "                await self._known(self._callers.check(request.headers, peer, "
        "() if pod is None else (pod,)))\n",
        "",
        (_CALLERS,),
    ),
    Mutation(
        "vm-resize-namespace",
        "pods are resized for those alone who may do so in their namespace (B44)",
        "vm/server/callers.py",
        "                namespace=namespace, verb=verb,",
        '                namespace="kube-system", verb=verb,',
        (_CALLERS,),
    ),
    Mutation(
        "vm-resize-allowed",
        "what the API server forbids is not done for anybody (B44)",
        "vm/server/answering.py",
        'self._callers.may(request.headers, "patch", "resize", (read.pod.namespace,))',
        "self._callers.account(request.headers)",
        (_CALLERS,),
    ),
    Mutation(
        "vm-permit-leader",
        "only the one that leads answers (B44)",
        "vm/server/desk.py",
        "        return actuator is not None and actuator.allowed()",
        "        return True",
        (_CALLERS,),
    ),
    Mutation(
        "vm-permit-above-request",
        "no permit is above its request (I11)",
        "vm/permit_answers.py",
        "told.permit.least(request.resources)",
        "told.permit",
        (_PERMITS, "tests/vm/test_permit_answers.py"),
    ),
    Mutation(
        "vm-permit-above-node",
        "no grant is above the node, whatever an agent says that it holds (D8, I1)",
        "vm/waiting.py",
        "state.avail(node, pod.uid), joint=True",
        "state.nodes[node].total, joint=True",
        (_PERMITS,),
    ),
    Mutation(
        "vm-permit-too-late",
        "who is answered before his request is written is told no more than he holds (F16, I2, D8)",
        "vm/permit_answers.py",
        "told.permit.least(request.last_permit)\n    return Answer",
        "request.resources\n    return Answer",
        ("tests/vm/test_permit_answers.py",),
    ),
    Mutation(
        "vm-permit-in-time",
        "agents are answered in time, however slow the API server is (F16, C39)",
        "vm/server/permits.py",
        "            async with asyncio.timeout_at(began + self._wait_s):\n                await turn",
        "            async with asyncio.timeout(None):\n                await turn",
        (_PERMITS,),
    ),
    Mutation(
        "vm-asker-in-time",
        "whoever asks is answered in time, also while the API server does not say who he is (C39)",
        "vm/server/answering.py",
        "            async with asyncio.timeout(self._wait_s):\n                await asking",
        "            async with asyncio.timeout(None):\n                await asking",
        ("tests/vm/server/test_explaining.py",),
    ),
    Mutation(
        "vm-permit-turn-ends",
        "who waits for room keeps nobody from being written (F16)",
        "vm/server/permits.py",
        "                if settled(ledger.state, uid):\n",
        "                if False:\n",
        (_PERMITS,),
    ),
    Mutation(
        "vm-permit-late",
        "a request that was overtaken writes nothing (F5)",
        "vm/server/permits.py",
        " or self._is_late(request, uid)",
        "",
        (_PERMITS,),
    ),
    Mutation(
        "vm-permit-frozen",
        "nothing is written about a machine that is being moved (D13)",
        "vm/server/permits.py",
        " or known.frozen",
        "",
        (_PERMITS,),
    ),
    Mutation(
        "vm-resize-above-node",
        "no pod is resized above its node (B36)",
        "vm/resize_requests.py",
        "        if wanted is not None and wanted > node.total[place]:",
        "        if False:",
        (_EXPLAINING,),
    ),
    Mutation(
        "listener-silence",
        "who sends nothing is cut off, so that there is room for others (F16)",
        "runtime/serving/listener.py",
        "            protocol.transport.abort()\n\n    async def _handle",
        "            pass\n\n    async def _handle",
        ("tests/runtime/serving/test_listener.py",),
    ),
    Mutation(
        "vm-one-bears-the-name",
        "of several replicas agents find the one that leads (C17, B44)",
        "runtime/marking.py",
        "    for other in sorted(marked - {mark.pod}):",
        "    for other in ():",
        ("tests/vm/controller/test_controller.py",),
    ),
    Mutation(
        "vm-certificates-of-nobody",
        "no Secret is made where situate is not installed (B44)",
        "vm/server/certificates.py",
        "                await self._wait(installed=True)\n",
        "",
        (_CERTIFICATES,),
    ),
    Mutation(
        "vm-certificates-announced",
        "a certificate is shown no sooner than agents can know whom to trust (B44)",
        "runtime/serving/certificates.py",
        "    if now >= due and known:",
        "    if known:",
        (_CERTIFICATES,),
    ),
    Mutation(
        "vm-agent-trusts-whom-it-is-told",
        "an agent that knows no authority yet asks nobody (B44)",
        "vm/agent/controller/permit_client.py",
        "        if tls is None:\n",
        "        if False:\n",
        ("tests/vm/agent/controller/test_permit_client.py",),
    ),
)
