import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import type { Session } from "@/gen/model";
import { getGetSessionQueryKey } from "@/gen/operator/operator";
import { ApiError } from "@/lib/problem";

const maxRetries = 2;

const shouldRetry = (failures: number, error: unknown) =>
  failures < maxRetries && error instanceof ApiError && (error.status === 0 || error.status >= 500);

/** A 401 anywhere leads to the sign-in page, and nothing that was loaded before stays in memory. */
export function createQueryClient(): QueryClient {
  const signedOut = (error: unknown) => {
    if (!(error instanceof ApiError) || error.status !== 401) return;
    client.setQueryData<Session>(getGetSessionQueryKey(), {
      auth: "kubernetes",
      authenticated: false,
      canDelete: false,
      canUpdate: false,
    });
  };
  const client: QueryClient = new QueryClient({
    queryCache: new QueryCache({ onError: signedOut }),
    mutationCache: new MutationCache({ onError: signedOut }),
    defaultOptions: {
      queries: {
        retry: shouldRetry,
        retryDelay: (attempt) => Math.min(1000 * 2 ** attempt, 8000),
        staleTime: 10_000,
        gcTime: 10 * 60_000,
        networkMode: "always",
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
      },
      mutations: { networkMode: "always" },
    },
  });
  return client;
}
