"""What runs inside the forwarder container of a pod; `workers.sandbox.pod` starts it."""
