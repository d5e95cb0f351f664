"""All routes of the proxy, and the document that describes them."""

from typing import Final

from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.exchange import Exchange
from headrace.gateway.rest.openapi import describe
from headrace.gateway.rest.request import Answer
from headrace.gateway.rest.route import Route
from headrace.gateway.rest.v2.table import V2_ROUTES
from headrace.gateway.rest.v3.table import V3_ROUTES


async def _openapi(exchange: Exchange) -> Answer:
    return Answer(_DOCUMENT)


ROUTES: Final = [
    *V3_ROUTES,
    *V2_ROUTES,
    Route(
        method="GET",
        path="/openapi.json",
        right=Right.LOGIN,
        summary="Describe this API",
        handle_async=_openapi,
        returns="OpenApi",
    ),
]
WITHOUT_HEAD: Final = frozenset(each.path for each in ROUTES if not each.has_head)
_DOCUMENT: Final = describe(ROUTES)
