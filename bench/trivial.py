"""The least that a web service can do with Starlette: what the service is measured against."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def answer(request: Request) -> JSONResponse:
    """Read the body, and answer something."""
    await request.body()
    return JSONResponse({"answer": "yes"})


app = Starlette(routes=[Route("/answer", answer, methods=["POST"])])
