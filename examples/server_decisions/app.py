"""A backend that decides with a policy in its own process: `flask --app examples/server_decisions/app.py run`."""

import secrets
from pathlib import Path

from flask import Flask, abort, jsonify, request, send_file

import maskedbandits as mb

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "client" / "client.js"
HEADLINES = ["Read our news", "Why wait?", "Seven ideas"]
EPSILON = 1.0
SAVE_EVERY = 100


def create_app(saved: Path = Path("server_decisions.policy"), policy_name: str = "auto") -> Flask:
    """Return the backend. It continues with the saved policy, if there is one."""
    app = Flask(__name__)
    mask = mb.RandomizedResponse.from_epsilon(EPSILON)
    policy = mb.load_policy(saved) if saved.exists() else mb.make_policy(policy_name, arms=3, corruption=mask)
    pending: dict[str, int] = {}  # the arm of each decision without a report

    @app.get("/")
    def page():
        return send_file(HERE / "page.html")

    @app.get("/client.js")
    def client():
        return send_file(CLIENT, mimetype="text/javascript")

    @app.post("/decisions")
    def decide():
        arm, decision = policy.choose(), secrets.token_urlsafe(16)
        pending[decision] = arm
        return jsonify(decision=decision, headline=HEADLINES[arm], epsilon=EPSILON)

    @app.post("/reports")
    def report():
        sent = request.get_json()
        arm = pending.pop(sent.get("decision"), None)
        if arm is None or sent.get("bit") not in (0, 1):
            abort(400, "unknown decision, or its report was received")
        policy.observe(arm, sent["bit"])
        if policy.observations % SAVE_EVERY == 0:
            policy.save(saved)
        return jsonify(status="accepted")

    @app.get("/state")
    def state():
        return jsonify(
            reports=policy.observations, pending=len(pending), estimates=policy.estimates().round(3).tolist()
        )

    return app
