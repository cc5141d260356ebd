import { Select as Base } from "@base-ui/react/select";
import { Check, ChevronDown } from "lucide-react";
import { cn } from "@/lib/cn";

export interface Option<Value extends string> {
  value: Value;
  label: string;
}

interface Common<Value extends string> {
  label: string;
  options: Option<Value>[];
  className?: string;
}

const trigger =
  "flex h-9 min-w-0 items-center gap-2 rounded-md border border-line-strong bg-surface px-3 text-sm text-ink transition-colors hover:bg-subtle data-popup-open:bg-subtle";

function Popup<Value extends string>({ options, multiple }: { options: Option<Value>[]; multiple: boolean }) {
  return (
    <Base.Portal>
      <Base.Positioner
        sideOffset={6}
        align="start"
        alignItemWithTrigger={false}
        className="z-50 outline-none"
      >
        <Base.Popup className="max-h-80 min-w-[max(11rem,var(--anchor-width))] overflow-y-auto rounded-lg border border-line bg-raised p-1 text-sm shadow-pop outline-none">
          <Base.List>
            {options.map((option) => (
              <Base.Item
                key={option.value}
                value={option.value}
                className="flex h-8 items-center gap-2 rounded-md pr-3 pl-2 text-ink outline-none data-highlighted:bg-subtle"
              >
                <span
                  className={cn(
                    "flex size-4 shrink-0 items-center justify-center",
                    multiple && "rounded-sm border border-line-strong",
                  )}
                >
                  <Base.ItemIndicator className="flex text-accent">
                    <Check className="size-3.5" strokeWidth={3} aria-hidden />
                  </Base.ItemIndicator>
                </span>
                <Base.ItemText>{option.label}</Base.ItemText>
              </Base.Item>
            ))}
          </Base.List>
        </Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  );
}

function Trigger({
  label,
  text,
  active,
  className,
}: {
  label: string;
  text: string;
  active: boolean;
  className?: string;
}) {
  return (
    <Base.Trigger
      aria-label={`${label}: ${text}`}
      className={cn(trigger, active && "border-accent", className)}
    >
      <span className="truncate">
        <span className="text-muted">{label}: </span>
        {text}
      </span>
      <Base.Icon className="ml-auto flex text-muted">
        <ChevronDown className="size-4" aria-hidden />
      </Base.Icon>
    </Base.Trigger>
  );
}

export function Select<Value extends string>({
  label,
  options,
  value,
  onChange,
  active = false,
  className,
}: Common<Value> & { value: Value; onChange: (value: Value) => void; active?: boolean }) {
  const text = options.find((option) => option.value === value)?.label ?? value;
  return (
    <Base.Root modal={false} value={value} onValueChange={(next) => next !== null && onChange(next)}>
      <Trigger label={label} text={text} active={active} className={className} />
      <Popup options={options} multiple={false} />
    </Base.Root>
  );
}

export function MultiSelect<Value extends string>({
  label,
  options,
  value,
  onChange,
  all,
  className,
}: Common<Value> & { value: Value[]; onChange: (value: Value[]) => void; all: string }) {
  const chosen = options.filter((option) => value.includes(option.value)).map((option) => option.label);
  return (
    <Base.Root modal={false} multiple value={value} onValueChange={onChange}>
      <Trigger
        label={label}
        text={chosen.join(", ") || all}
        active={chosen.length > 0}
        className={className}
      />
      <Popup options={options} multiple />
    </Base.Root>
  );
}
