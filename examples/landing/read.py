"""Counts what was landed, hour by hour, with nothing but pyarrow."""

import sys

import pyarrow.dataset as ds


def hours(folder: str) -> dict[str, int]:
    landed = ds.dataset(folder, format="parquet", partitioning="hive")
    table = landed.to_table(columns=["date", "hour"])
    counted = table.group_by(["date", "hour"]).aggregate([([], "count_all")])
    rows = sorted(counted.to_pylist(), key=lambda each: (str(each["date"]), int(each["hour"])))
    return {f"{row['date']} {int(row['hour']):02}h": row["count_all"] for row in rows}


if __name__ == "__main__":
    for hour, count in hours(sys.argv[1]).items():
        sys.stdout.write(f"{hour} {count}\n")
