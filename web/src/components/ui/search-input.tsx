import { Search, X } from "lucide-react";
import { useRef } from "react";
import { isTyping, useHotkey } from "@/lib/keyboard";
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

/** A search field that reports when typing settles; "/" focuses it, Escape empties and leaves it. */
export function SearchInput({ label, placeholder, value, maxLength, onChange, className }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useSettled(value, onChange);

  useHotkey((event) => {
    if (event.key !== "/" || isTyping(event.target)) return;
    event.preventDefault();
    input.current?.focus();
    input.current?.select();
  });

  return (
    <div className={cn("relative min-w-0", className)}>
      <Search
        aria-hidden
        className="pointer-events-none absolute top-1/2 left-3 size-4 -translate-y-1/2 text-muted"
      />
      <input
        ref={input}
        type="search"
        aria-label={label}
        aria-keyshortcuts="/"
        placeholder={placeholder}
        maxLength={maxLength}
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.preventDefault();
          setText("");
          input.current?.blur();
        }}
        className="h-9 w-full rounded-md border border-line-strong bg-surface pr-9 pl-9 text-sm text-ink placeholder:text-muted [&::-webkit-search-cancel-button]:hidden"
      />
      {text === "" ? (
        <kbd
          aria-hidden
          className="pointer-events-none absolute top-1/2 right-2.5 hidden -translate-y-1/2 rounded border border-line bg-subtle px-1.5 font-mono text-[11px] leading-5 text-muted sm:block"
        >
          /
        </kbd>
      ) : (
        <button
          type="button"
          aria-label="Clear the search"
          onClick={() => {
            setText("");
            input.current?.focus();
          }}
          className="absolute top-1/2 right-1 flex size-7 -translate-y-1/2 items-center justify-center rounded text-muted hover:bg-subtle hover:text-ink"
        >
          <X className="size-3.5" aria-hidden />
        </button>
      )}
    </div>
  );
}
