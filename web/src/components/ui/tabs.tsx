import { Tabs as Base } from "@base-ui/react/tabs";
import type { ReactNode } from "react";
import { cn } from "@/lib/cn";

export interface TabOption<Value extends string> {
  value: Value;
  label: string;
  note?: string;
}

/** A row of tabs over one panel, whose content depends on the tab that is chosen. */
export function Tabs<Value extends string>({
  label,
  options,
  value,
  onChange,
  pending = false,
  children,
}: {
  label: string;
  options: TabOption<Value>[];
  value: Value;
  onChange: (value: Value) => void;
  /** Notes are not known yet: the tabs take their space and are shown with them, so that none moves. */
  pending?: boolean;
  children: ReactNode;
}) {
  return (
    <Base.Root value={value} onValueChange={(next: Value) => onChange(next)}>
      <Base.List
        aria-label={label}
        className={cn("flex flex-wrap gap-x-1 border-b border-line", pending && "*:invisible")}
      >
        {options.map((option) => (
          <Base.Tab
            key={option.value}
            value={option.value}
            className="-mb-px flex h-10 items-center gap-1.5 border-b-2 border-transparent px-2.5 text-sm text-muted transition-colors hover:text-ink data-active:border-accent data-active:font-medium data-active:text-ink sm:px-3"
          >
            {option.label}
            {option.note !== undefined && (
              <span className="tabular text-[13px] text-muted">{option.note}</span>
            )}
          </Base.Tab>
        ))}
      </Base.List>
      <Base.Panel value={value} tabIndex={-1} className="pt-3 outline-none">
        {children}
      </Base.Panel>
    </Base.Root>
  );
}
