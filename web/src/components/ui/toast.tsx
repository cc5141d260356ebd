import { Toast } from "@base-ui/react/toast";
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { cn } from "@/lib/cn";
import { describe } from "@/lib/problem";
import { Button } from "./button";

export function ToastProvider({ children }: { children: ReactNode }) {
  return (
    <Toast.Provider timeout={6000} limit={3}>
      {children}
      <Toast.Portal>
        <Toast.Viewport className="fixed right-4 bottom-4 left-4 z-50 flex flex-col items-end gap-2 sm:left-auto sm:w-96">
          <ToastList />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function ToastList() {
  const { toasts } = Toast.useToastManager();
  return toasts.map((toast) => (
    <Toast.Root
      key={toast.id}
      toast={toast}
      className={cn(
        "flex w-full items-start gap-3 rounded-lg border bg-raised p-3.5 text-sm shadow-pop transition-opacity duration-200 data-ending-style:opacity-0 data-starting-style:opacity-0",
        toast.type === "error" ? "border-danger-line" : "border-line",
      )}
    >
      <Toast.Content className="min-w-0 flex-1">
        <Toast.Title className={cn("font-medium", toast.type === "error" && "text-danger")} />
        <Toast.Description className="untrusted mt-0.5 text-muted" />
      </Toast.Content>
      <Toast.Close render={<Button variant="ghost" size="icon-sm" aria-label="Dismiss" className="-m-1" />}>
        <X aria-hidden />
      </Toast.Close>
    </Toast.Root>
  ));
}

export function useNotify() {
  const { add } = Toast.useToastManager();
  return {
    done: (title: string, description?: string) => add({ title, description }),
    failed: (title: string, error: unknown) => {
      const problem = describe(error);
      add({
        type: "error",
        title,
        description: problem.detail ? `${problem.title}. ${problem.detail}` : problem.title,
        priority: "high",
      });
    },
  };
}
