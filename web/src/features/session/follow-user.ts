import type { QueryClient, QueryKey } from "@tanstack/react-query";
import type { Session } from "@/gen/model";
import { getGetSessionQueryKey } from "@/gen/operator/operator";
import { userOf } from "./session";

/** What connects the tabs of a browser. */
export type Channel = Pick<BroadcastChannel, "postMessage" | "onmessage">;

const newChannel = (): Channel => new BroadcastChannel("scanner-operator-session");

/**
 * Keeps what is loaded to one user: when another one signs in, or nobody is signed in any more, nothing of it stays in
 * memory. Tabs tell each other of a new user, and then ask the operator who is signed in.
 */
export function followUser(client: QueryClient, channel = newChannel()) {
  const [sessionKey] = getGetSessionQueryKey();
  let user: string | undefined;
  client.getQueryCache().subscribe(({ type, query }) => {
    const session = query.state.data as Session | undefined;
    const [key] = query.queryKey as QueryKey;
    if (type !== "updated" || key !== sessionKey || session === undefined) return;
    const next = userOf(session);
    if (next === user) return;
    if (user !== undefined) client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey });
    user = next;
    channel.postMessage(next);
  });
  channel.onmessage = ({ data }: MessageEvent<unknown>) => {
    if (data !== user) void client.invalidateQueries({ queryKey: [sessionKey] });
  };
}
