/** Deeper than this, lines are not indented further. */
const deepest = 24;

/**
 * Breaks JSON into lines, also the beginning of a document, which cannot be parsed. What is too long for so many
 * characters is cut off. Texts stay as they are.
 */
export function indentJSON(json: string, most: number): string {
  const parts: string[] = [];
  let length = 0;
  let depth = 0;
  let from = 0;
  const put = (part: string) => {
    parts.push(part);
    length += part.length;
  };
  const line = () => put(`\n${"  ".repeat(Math.min(depth, deepest))}`);
  for (let at = 0; at < json.length && length < most; at++) {
    const char = json[at];
    if (char === '"') {
      // To the end of the text: quotes in it follow a backslash.
      for (at++; at < json.length && json[at] !== '"'; at++) if (json[at] === "\\") at++;
    } else if (char === "{" || char === "[") {
      put(json.slice(from, at + 1).trim());
      from = at + 1;
      const rest = /\s*[}\]]/y;
      rest.lastIndex = from;
      if (rest.test(json)) {
        put(json[rest.lastIndex - 1] ?? "");
        at = rest.lastIndex - 1;
        from = at + 1;
      } else {
        depth++;
        line();
      }
    } else if (char === "}" || char === "]") {
      put(json.slice(from, at).trim());
      depth = Math.max(0, depth - 1);
      line();
      put(char);
      from = at + 1;
    } else if (char === ":") {
      put(`${json.slice(from, at).trim()}: `);
      from = at + 1;
    } else if (char === ",") {
      put(`${json.slice(from, at).trim()},`);
      from = at + 1;
      line();
    }
  }
  put(json.slice(from).trim());
  return parts.join("").slice(0, most);
}
