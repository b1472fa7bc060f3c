"""A site whose backend decides with the service: `flask --app examples/server_decisions/layouts.py run --port 5000`."""

import os
import secrets
from pathlib import Path

from flask import Flask, make_response, render_template_string, request, send_from_directory

import maskedbandits as mb

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "client"
SERVICE = os.environ.get("BANDITS_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("BANDITS_KEY")  # with the role backend: secret
PAGE_KEY = os.environ.get("BANDITS_PAGE_KEY")  # with the role device: public, because the page reports with it
EXPERIMENT = "layouts"
DEFAULT = "list"  # while the service is away


def create_app(
    service: str = SERVICE, key: str | None = KEY, page_key: str | None = PAGE_KEY, timeout: float = 0.5
) -> Flask:
    """Return the site; after so many seconds without the service it shows the default layout."""
    app = Flask(__name__)

    @app.get("/")
    def page():
        visitor = request.cookies.get("visitor") or secrets.token_urlsafe(16)
        terms = {"key": key, "visitor": visitor, "fallback": DEFAULT, "timeout": timeout}
        offer = mb.request_offer(service, EXPERIMENT, **terms)
        text = (HERE / "layouts.html").read_text(encoding="utf-8")
        response = make_response(render_template_string(text, offer=offer, service=service, key=page_key))
        response.headers["Cache-Control"] = "no-store"  # an offer is for one visitor
        response.set_cookie("visitor", visitor, max_age=86_400, httponly=True, samesite="Lax")
        return response

    @app.get("/<any('client.js', 'report-worker.js'):name>")
    def script(name):
        return send_from_directory(CLIENT, name, mimetype="text/javascript")

    return app
