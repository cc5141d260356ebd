import { below } from "./base-path";
import { ApiError } from "./problem";
import { parseUntrusted } from "./text";

/** The generated hooks take this as the type of their error. */
export type ErrorType<Body> = ApiError & { body?: Body };

const isJSON = (contentType: string) => /^application\/([\w.-]+\+)?json\b/i.test(contentType);

async function send(url: string, init?: RequestInit): Promise<Response> {
  const headers = new Headers(init?.headers);
  if (!headers.has("Accept")) headers.set("Accept", "application/json, application/problem+json");
  let response: Response;
  try {
    response = await fetch(below(url), { ...init, headers, credentials: "same-origin" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw ApiError.unreachable();
  }
  if (!response.ok) throw await ApiError.fromResponse(response);
  return response;
}

/** Calls the API; every refusal becomes an ApiError. Used by the generated client. */
export async function request<T>(url: string, init?: RequestInit): Promise<T> {
  const response = await send(url, init);
  if (response.status === 204) return undefined as T;
  if (isJSON(response.headers.get("Content-Type") ?? "")) return parseUntrusted(await response.text()) as T;
  return (await response.blob()) as T;
}

/** Fetches a document as it is, for a download. */
export async function requestBlob(url: string, accept: string, signal?: AbortSignal): Promise<Blob> {
  const response = await send(url, { headers: { Accept: accept }, signal });
  return response.blob();
}

export interface Beginning {
  text: string;
  /** It is the whole document. */
  whole: boolean;
}

/** Reads at most so many bytes of a document, as text; the rest is not transferred. */
export async function requestBeginning(
  url: string,
  accept: string,
  most: number,
  signal?: AbortSignal,
): Promise<Beginning> {
  const response = await send(url, { headers: { Accept: accept }, signal });
  const reader = response.body?.getReader();
  if (!reader) return { text: "", whole: true };
  const decoder = new TextDecoder();
  let text = "";
  for (let left = most; ;) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), whole: true };
    text += decoder.decode(value.subarray(0, left), { stream: true });
    if (value.length > left) {
      void reader.cancel();
      return { text, whole: false };
    }
    left -= value.length;
  }
}
