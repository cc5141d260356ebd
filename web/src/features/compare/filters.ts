import { address, notNarrowing, text } from "@/lib/address";

export interface Compared {
  /** Image IDs; empty while none is chosen. */
  from: string;
  to: string;
  /** That of both; empty for one that both have. */
  platform: string;
}

export const compared = address<Compared>({
  from: notNarrowing(text("from", 512)),
  to: notNarrowing(text("to", 512)),
  platform: notNarrowing(text("platform", 128)),
});
