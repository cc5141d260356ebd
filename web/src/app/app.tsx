import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider, type QueryClient } from "@tanstack/react-query";
import { RouterProvider } from "react-router";
import { ToastProvider } from "@/components/ui/toast";
import type { createRouter } from "./router";

interface Props {
  client: QueryClient;
  router: ReturnType<typeof createRouter>;
}

export function App({ client, router }: Props) {
  return (
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={client}>
        <ToastProvider>
          <RouterProvider router={router} />
        </ToastProvider>
      </QueryClientProvider>
    </CSPProvider>
  );
}
