"""Writes machines.csv, the records of the tutorial: twelve machines, five readings every two minutes, for five days.

On the third day machine m03 begins to send its pressure in another unit, on the fourth polishing takes the place of
some milling, on the fifth machine m07 breaks.
"""

import csv
import datetime
import random
from pathlib import Path

MODES = {  # temperature, vibration, current, flow
    "idle": (31, 0.4, 2.1, 0.3),
    "milling": (58, 2.2, 11.5, 6.0),
    "drilling": (49, 3.6, 7.8, 4.1),
    "polishing": (72, 1.1, 14.2, 8.5),
}

random.seed(7)
start = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
with Path("machines.csv").open("w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["id", "time", "machine", "temperature", "vibration", "current", "flow", "pressure", "firmware"])
    for minute in range(0, 5 * 24 * 60, 2):
        day, time = minute // 1440 + 1, start + datetime.timedelta(minutes=minute)
        for machine in range(12):
            last = "polishing" if day >= 4 else "milling"
            mode = ["idle", "milling", "drilling", last][(minute // 40 + machine) % 4]
            values = [random.gauss(value, 0.05 * value + 0.02) for value in MODES[mode]]
            values.append(random.gauss(6.2, 0.2))
            if machine == 3 and day >= 3:
                values[4] *= 100
            if machine == 7 and day == 5:
                values = [value * random.choice([0.15, 12]) for value in values]
            cells = [f"{value:.3f}" for value in values]
            table.writerow([f"{minute}-{machine}", time.isoformat(), f"m{machine:02}", *cells, "4.2"])
