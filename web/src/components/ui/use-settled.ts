import { useEffect, useRef, useState } from "react";

const settle = 250;

/** The text of a field, which is reported when typing settles; an empty one at once. */
export function useSettled(value: string, onChange: (value: string) => void) {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  const [reported, setReported] = useState(value);
  const report = useRef(onChange);

  // The address may change from elsewhere, such as the back button. What this field reported does not replace what was typed since.
  if (value !== known) {
    setKnown(value);
    if (value !== reported) {
      setReported(value);
      setText(value);
    }
  }

  useEffect(() => {
    report.current = onChange;
  });

  useEffect(() => {
    const next = text.trim();
    if (next === value) return;
    const timer = window.setTimeout(
      () => {
        setReported(next);
        report.current(next);
      },
      next === "" ? 0 : settle,
    );
    return () => window.clearTimeout(timer);
  }, [text, value]);

  return [text, setText] as const;
}
