import { MutationCache, QueryCache, QueryClient, type QueryKey } from "@tanstack/react-query";
import type { Session } from "@/gen/model";
import { followUser } from "@/features/session/follow-user";
import { signedOut } from "@/features/session/session";
import { getGetSessionQueryKey } from "@/gen/operator/operator";
import { ApiError } from "@/lib/problem";

const maxRetries = 2;

const shouldRetry = (failures: number, error: unknown) =>
  failures < maxRetries && error instanceof ApiError && (error.status === 0 || error.status >= 500);

/** A 401 anywhere leads to the sign-in page. After a 403, the rights may be others than those of the session. */
export function createQueryClient(): QueryClient {
  const [sessionKey] = getGetSessionQueryKey();
  const onError = (error: unknown, queryKey: QueryKey = []) => {
    if (!(error instanceof ApiError) || queryKey[0] === sessionKey) return;
    if (error.status === 401) client.setQueryData<Session>([sessionKey], signedOut);
    if (error.status === 403) void client.invalidateQueries({ queryKey: [sessionKey] });
  };
  const client: QueryClient = new QueryClient({
    queryCache: new QueryCache({ onError: (error, { queryKey }) => onError(error, queryKey) }),
    mutationCache: new MutationCache({ onError: (error) => onError(error) }),
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
  followUser(client);
  return client;
}
