const locale = "en";
const number = new Intl.NumberFormat(locale);
const compact = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
const dateTime = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const timeOfDay = new Intl.DateTimeFormat(locale, { timeStyle: "medium", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" });
const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "long" });

export const formatNumber = (value: number) => number.format(value);

/** 999 stays 999, 1234 becomes 1.2K. */
export const formatCompact = (value: number) =>
  value < 1000 ? String(value) : compact.format(value).toLowerCase();

export const plural = (count: number, one: string, many = `${one}s`) =>
  `${formatNumber(count)} ${count === 1 ? one : many}`;

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function formatDateTime(iso: string | undefined): string {
  const time = Date.parse(iso ?? "");
  return Number.isNaN(time) ? "unknown" : dateTime.format(time);
}

/** The time of the day to the second, such as 23:05:09. */
export function formatTime(iso: string): string {
  const time = Date.parse(iso);
  return Number.isNaN(time) ? "unknown" : timeOfDay.format(time);
}

/** A day of UTC, such as 2026-01-31, as it is said. */
export function formatDay(day: string): string {
  const time = Date.parse(day);
  return Number.isNaN(time) ? "unknown" : date.format(time);
}

const steps: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 365 * 86_400],
  ["month", 30 * 86_400],
  ["week", 7 * 86_400],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** "3 minutes ago", "in 2 hours"; "just now" for the last minute. */
export function formatRelative(iso: string | undefined, now: number): string {
  const time = Date.parse(iso ?? "");
  if (Number.isNaN(time)) return "unknown";
  const seconds = (time - now) / 1000;
  for (const [unit, size] of steps) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return seconds > 30 ? "in under a minute" : "just now";
}

/** EPSS as a percentage: 0.00043 → <0.1%, 0.9432 → 94.3%. */
export function formatPercent(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 0.1) return "<0.1%";
  return `${percent.toFixed(percent >= 99.95 ? 0 : 1)}%`;
}

export const formatRisk = (risk: number) => (risk > 0 && risk < 0.1 ? "<0.1" : risk.toFixed(1));
