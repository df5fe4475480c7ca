/** Headers of one request, at every door and window; what has more is answered with 431. Browsers send about thirty. */
export const requestHeadersMax = 128
