"""`interlock top`: the state of a deployment at one moment, as a live screen."""
