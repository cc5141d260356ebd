/** Returns the URL when it is absolute http or https, otherwise undefined: all other schemes stay plain text. */
export function safeURL(value: string | undefined): string | undefined {
  if (!value || value.length > 2048) return undefined;
  try {
    const url = new URL(value);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : undefined;
  } catch {
    return undefined;
  }
}
