import { CircleAlert, RotateCw, SearchX, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { describe } from "@/lib/problem";
import { Button } from "./button";

interface Props {
  icon: LucideIcon;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  role?: "alert" | "status";
}

/** What stands where content would: empty, not found, failed. */
export function StatePanel({ icon: Icon, title, children, action, role }: Props) {
  return (
    <div role={role} className="flex flex-col items-center px-6 py-14 text-center">
      <span className="flex size-11 items-center justify-center rounded-full bg-subtle text-muted">
        <Icon className="size-5" aria-hidden />
      </span>
      <h2 className="untrusted mt-4 text-base font-semibold">{title}</h2>
      {children && (
        <div className="untrusted mt-1.5 max-w-prose space-y-3 text-sm text-muted">{children}</div>
      )}
      {action && <div className="mt-5 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  );
}

export function ErrorPanel({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const { title, detail, status } = describe(error);
  return (
    <StatePanel
      role="alert"
      icon={CircleAlert}
      title={title}
      action={
        <Button onClick={onRetry}>
          <RotateCw aria-hidden />
          Try again
        </Button>
      }
    >
      {detail && <p>{detail}</p>}
      {status > 0 && <p className="tabular text-xs">HTTP status {status}</p>}
    </StatePanel>
  );
}

interface NothingFoundProps {
  title: string;
  onClear: () => void;
  children?: ReactNode;
}

export function NothingFound({ title, onClear, children }: NothingFoundProps) {
  return (
    <StatePanel icon={SearchX} title={title} action={<Button onClick={onClear}>Clear filters</Button>}>
      <p>Change the search or the filters.</p>
      {children}
    </StatePanel>
  );
}
