#!/bin/sh
# mini-swe-agent as its users start it; it wants the route's name before the model's own.
exec python3 -m minisweagent.run.mini -m "openai/$ASSIZE_MODEL" -t "$(cat "$ASSIZE_INSTRUCTION")" \
    -y --exit-immediately -o trajectory.json
