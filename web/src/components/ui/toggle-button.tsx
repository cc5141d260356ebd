import { Toggle } from "@base-ui/react/toggle";
import { Check } from "lucide-react";
import { cn } from "@/lib/cn";

interface Props {
  pressed: boolean;
  onChange: (pressed: boolean) => void;
  children: string;
}

export function ToggleButton({ pressed, onChange, children }: Props) {
  return (
    <Toggle
      pressed={pressed}
      onPressedChange={onChange}
      className={cn(
        "flex h-9 items-center gap-1.5 rounded-md border border-line-strong bg-surface px-3 text-sm transition-colors hover:bg-subtle",
        pressed && "border-accent bg-accent-soft hover:bg-accent-soft",
      )}
    >
      {pressed && <Check className="size-3.5 text-accent" strokeWidth={3} aria-hidden />}
      {children}
    </Toggle>
  );
}
