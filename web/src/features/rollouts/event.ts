import { EventKind } from "@/gen/model";
import { parseEvent } from "@/lib/events";

export const followedKinds: EventKind[] = [EventKind.rolloutchanged, EventKind.rolloutevaluated];

export const parseRolloutEvent = parseEvent(followedKinds);
