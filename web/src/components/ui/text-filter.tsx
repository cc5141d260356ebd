import { cn } from "@/lib/cn";
import { useSettled } from "./use-settled";

interface Props {
  label: string;
  placeholder: string;
  value: string;
  maxLength: number;
  onChange: (value: string) => void;
  className?: string;
}

/** A field for a filter beside the search; Escape empties it. */
export function TextFilter({ label, placeholder, value, maxLength, onChange, className }: Props) {
  const [text, setText] = useSettled(value, onChange);
  return (
    <input
      type="text"
      aria-label={label}
      placeholder={placeholder}
      maxLength={maxLength}
      autoComplete="off"
      autoCapitalize="off"
      spellCheck={false}
      value={text}
      onChange={(event) => setText(event.target.value)}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        setText("");
        event.currentTarget.blur();
      }}
      className={cn(
        "h-9 min-w-0 rounded-md border border-line-strong bg-surface px-3 text-sm text-ink placeholder:text-muted",
        value !== "" && "border-accent",
        className,
      )}
    />
  );
}
