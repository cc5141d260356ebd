import { parseUntrusted } from "./text";

const maxProblemLength = 64 * 1024;

/** A refusal of the API: an RFC 9457 problem document, or what can be told without one. */
export class ApiError extends Error {
  readonly status: number;
  readonly title: string;
  readonly detail: string | undefined;

  constructor(status: number, title: string, detail?: string) {
    super(detail ? `${title}: ${detail}` : title);
    this.name = "ApiError";
    this.status = status;
    this.title = title;
    this.detail = detail;
  }

  static unreachable(): ApiError {
    return new ApiError(
      0,
      "The operator cannot be reached",
      "Check your connection and that the operator is running.",
    );
  }

  static async fromResponse(response: Response): Promise<ApiError> {
    const fallback = new ApiError(response.status, titleOf(response.status));
    try {
      const text = await response.text();
      if (text.length > maxProblemLength) return fallback;
      const problem: unknown = parseUntrusted(text);
      if (typeof problem !== "object" || problem === null) return fallback;
      const { title, detail } = problem as { title?: unknown; detail?: unknown };
      return new ApiError(
        response.status,
        typeof title === "string" && title !== "" ? title : fallback.title,
        typeof detail === "string" && detail !== "" ? detail : undefined,
      );
    } catch {
      return fallback;
    }
  }
}

function titleOf(status: number): string {
  switch (status) {
    case 401:
      return "Not signed in";
    case 403:
      return "Not allowed";
    case 404:
      return "Not found";
    case 429:
      return "Too many requests";
    case 502:
    case 503:
    case 504:
      return "The operator is not available";
    default:
      return status >= 500 ? "The operator failed" : "The request was refused";
  }
}

export function describe(error: unknown): { status: number; title: string; detail?: string } {
  if (error instanceof ApiError) return { status: error.status, title: error.title, detail: error.detail };
  if (error instanceof Error) return { status: -1, title: "Something went wrong", detail: error.message };
  return { status: -1, title: "Something went wrong" };
}
