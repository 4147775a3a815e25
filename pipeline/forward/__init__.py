"""Alerts for Alertmanager and PagerDuty: each is sent until the receiver has taken it."""
