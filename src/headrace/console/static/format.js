// Formats numbers and times for people.

const whole = new Intl.NumberFormat("en");

export const count = (number) => (number === null || number === undefined ? "–" : whole.format(Math.round(number)));

/** 1234 -> 1.2k. */
export function short(number) {
  if (number === null || number === undefined) return "–";
  const steps = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];
  for (const [size, unit] of steps) {
    if (Math.abs(number) >= size) return `${(number / (unit === "k" ? 1e3 : size)).toFixed(1)}${unit}`;
  }
  return Math.abs(number) < 100 && number % 1 ? number.toFixed(1) : whole.format(Math.round(number));
}

export const rate = (number) => `${short(number)}/s`;

export function bytes(number) {
  if (number === null || number === undefined || number < 0) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) {
    number /= 1024;
    at += 1;
  }
  return `${at && number < 100 ? number.toFixed(1) : Math.round(number)} ${units[at]}`;
}

const two = (number) => String(number).padStart(2, "0");

/** Format a time, without the date if it is today; Kafka's -1 means "none". */
export function moment(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  return `${day}${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function ago(ms) {
  const seconds = Math.max(0, Math.round((Date.now() - ms) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** 350 -> 350 ms, 12400 -> 12.4 s. */
export const took = (ms) => (Math.abs(ms) >= 1e4 ? `${Number((ms / 1000).toFixed(1))} s` : `${short(ms)} ms`);
