let fixed: number | undefined;

/** The time that the mock operator goes by, in milliseconds. */
export const now = () => fixed ?? Date.now();

/** Stops the clock of the mock operator, or lets it run again. */
export function stopClock(at?: number) {
  fixed = at;
}
