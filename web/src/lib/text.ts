// Characters that draw nothing, or that turn the direction of what follows: with them one name passes for another.
const hidden =
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Makes untrusted text safe to look at: what would be invisible or deceive shows as �. */
export const visible = (text: string) => text.replace(hidden, "\ufffd");

/** Parses JSON with texts of images, registries and other users, and makes them visible. */
export const parseUntrusted = (json: string): unknown =>
  JSON.parse(json, (_, value: unknown) => (typeof value === "string" ? visible(value) : value));
