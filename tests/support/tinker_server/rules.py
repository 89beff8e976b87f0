"""What a script wants answered otherwise.

A rule is an object: "path", the end of the path it is for; "type", the X-Tinker-Request-Type it is for, if any; "times",
how many such requests it answers (default 1; -1: all). Then one of
    "status", "body", "headers"   this answer
    "drop": true                  no answer, the connection ends
    "lose": true                  the same after the request was carried out
    "wait": seconds               the usual answer, later
"""

import asyncio

from http1 import Response


class Rules:
    def __init__(self, rules):
        self._rules = [{"times": 1, **rule} for rule in rules]

    async def answer(self, request, usual):
        """None where no rule has one; `usual` is what would answer then."""
        for rule in self._rules:
            if not request.path.endswith(rule["path"]):
                continue
            if "type" in rule and request.headers.get("x-tinker-request-type") != rule["type"]:
                continue
            if rule["times"] == 0:
                continue
            rule["times"] -= 1
            if rule.get("drop"):
                return Response.dropped()
            if rule.get("lose"):
                await usual(request)
                return Response.dropped()
            if "wait" in rule:
                await asyncio.sleep(rule["wait"])
                return None
            return Response(rule.get("body", {}), rule.get("status", 200), headers=rule.get("headers"))
        return None
