// Requests to the console's API. Every response is JSON; every failure carries one sentence.

export class Failure extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export async function ask(path, { method = "GET", body, signal } = {}) {
  let answer;
  try {
    answer = await fetch(`/api/${path}`, {
      method,
      signal,
      headers: { "X-Headrace-Console": "1", ...(body ? { "Content-Type": "application/json" } : {}) },
      body: body ? JSON.stringify(body) : undefined,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "The console does not answer.");
  }
  const found = await answer.json().catch(() => {
    // Only a body that is no JSON is nothing; a request that was cut off has no answer.
    signal?.throwIfAborted();
    return {};
  });
  if (answer.status === 401 && path !== "session") dispatchEvent(new Event("headrace-login"));
  if (!answer.ok) throw new Failure(answer.status, found.error ?? `The console answered ${answer.status}.`);
  return found;
}

export const query = (values) => {
  const kept = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return new URLSearchParams(kept).toString();
};

/**
 * Request `path` every few seconds while its page is shown and the tab is visible.
 * `show` gets the responses, `fail` the failures.
 */
export function poll(path, show, fail, every = 2000) {
  const stop = new AbortController();
  let timer = 0;
  const round = async () => {
    try {
      if (!document.hidden) {
        const found = await ask(path, { signal: stop.signal });
        if (!stop.signal.aborted) show(found);
      }
    } catch (error) {
      if (stop.signal.aborted) return;
      fail(error);
    }
    if (!stop.signal.aborted) timer = setTimeout(round, every);
  };
  round();
  const seen = () => {
    if (!document.hidden) {
      clearTimeout(timer);
      round();
    }
  };
  document.addEventListener("visibilitychange", seen);
  stop.signal.addEventListener("abort", () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
  });
  return () => stop.abort();
}
