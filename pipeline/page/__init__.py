"""The live web page of a deployment, from its output topics."""
