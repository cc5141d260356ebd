/** The day as YYYY-MM-DD; what is no day of the calendar is as if it were not there. */
export function parseDay(value: string | null): string {
  if (value === null || !/^\d{4}-\d\d-\d\d$/.test(value)) return "";
  const time = Date.parse(startOf(value));
  return Number.isNaN(time) || dayOf(time) !== value ? "" : value;
}

/** The day of UTC on which a time lies. */
export const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);

/** When a day of UTC begins. */
export const startOf = (day: string) => `${day}T00:00:00Z`;

/** When a day of UTC is over. */
export const endOf = (day: string) => startOf(dayOf(Date.parse(startOf(day)) + 86_400_000));
