import type { QueryClient } from "@tanstack/react-query";
import { invalidateDatabases } from "@/features/database/queries";
import { hasLongList, invalidateImage, presencesKey, refreshRows } from "@/features/images/queries";
import { getGetOverviewQueryKey } from "@/gen/images/images";
import { getGetSessionQueryKey } from "@/gen/operator/operator";
import { getListPoliciesQueryKey } from "@/gen/policies/policies";
import { getGetTrendsQueryKey } from "@/gen/workloads/workloads";
import { Coalescer, type Batch } from "@/lib/coalesce";
import { intervalOfSums, invalidateAll, invalidateLists, refreshInterval } from "@/lib/lists";

/** Brings what is loaded up to date. REST stays the truth: messages only say what to ask for again. */
export class Refresher {
  #client: QueryClient;
  #lists: Coalescer;
  #overview: Coalescer;

  constructor(client: QueryClient) {
    this.#client = client;
    this.#lists = new Coalescer(
      () => invalidateLists(client),
      () => refreshInterval(client),
    );
    // Sums over all images, which cost the operator more than the rows of an image.
    this.#overview = new Coalescer(
      () => client.invalidateQueries({ queryKey: getGetOverviewQueryKey() }),
      () => intervalOfSums,
    );
  }

  start = () => {
    this.#lists.start();
    this.#overview.start();
  };

  stop = () => {
    this.#lists.stop();
    this.#overview.stop();
  };

  apply = async ({ names, overflow }: Batch) => {
    const client = this.#client;
    this.#lists.add("lists");
    this.#overview.add("overview");
    await Promise.allSettled([
      invalidateDatabases(client),
      ...names.map((name) => invalidateImage(client, name)),
      // Rows that are loaded change at once, though the list as a whole may have to wait.
      overflow || !hasLongList(client) ? undefined : refreshRows(client, names),
    ]);
  };

  /** What changes without a message that names an image: with time, with pods that come and go. */
  totals = () => {
    this.#lists.add("lists");
    this.#overview.add("overview");
    void this.#client.invalidateQueries({ queryKey: getGetTrendsQueryKey() });
    void this.#client.invalidateQueries({ queryKey: getListPoliciesQueryKey() });
    void this.#client.invalidateQueries({ queryKey: presencesKey });
    void invalidateDatabases(this.#client);
  };

  all = () => void invalidateAll(this.#client);

  session = () => void this.#client.invalidateQueries({ queryKey: getGetSessionQueryKey() });
}
