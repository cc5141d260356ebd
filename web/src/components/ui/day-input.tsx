import { useState } from "react";

/**
 * A day of the calendar as YYYY-MM-DD; it is reported once it is complete and not too late. One that may be left out is
 * reported as empty when it is taken away.
 */
export function DayInput({
  label,
  value,
  max,
  optional = false,
  onChange,
}: {
  label: string;
  value: string;
  max: string;
  optional?: boolean;
  onChange: (day: string) => void;
}) {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  // The address may change from elsewhere, such as the back button.
  if (value !== known) {
    setKnown(value);
    setText(value);
  }
  return (
    <label className="flex h-9 items-center gap-2 rounded-md border border-line-strong bg-surface px-3 text-sm focus-within:border-accent">
      <span className="text-muted">{label}</span>
      <input
        type="date"
        value={text}
        max={max}
        onChange={({ target }) => {
          setText(target.value);
          if (target.value === "" ? optional : target.validity.valid && target.value >= "1970")
            onChange(target.value);
        }}
        className="bg-transparent text-ink outline-none"
      />
    </label>
  );
}
