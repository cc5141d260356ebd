import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { cn } from "@/lib/cn";

const tones = {
  info: ["border-line bg-subtle", "text-muted"],
  warn: ["border-warn-line bg-warn-soft", "text-warn"],
  danger: ["border-danger-line bg-danger-soft", "text-danger"],
} as const;

interface Props {
  tone: keyof typeof tones;
  icon: LucideIcon;
  title: ReactNode;
  children?: ReactNode;
  action?: ReactNode;
  role?: "status" | "alert";
  className?: string;
}

export function Callout({ tone, icon: Icon, title, children, action, role, className }: Props) {
  const [box, accent] = tones[tone];
  return (
    <div role={role} className={cn("flex gap-3 rounded-lg border px-4 py-3 text-sm", box, className)}>
      <Icon className={cn("mt-0.5 size-4 shrink-0", accent)} aria-hidden />
      <div className="min-w-0 flex-1">
        <p className="untrusted font-medium text-ink">{title}</p>
        {children && <div className="mt-1 space-y-1 text-ink/85">{children}</div>}
      </div>
      {action && <div className="shrink-0">{action}</div>}
    </div>
  );
}
