/* report/page: the HTML file around the data (docs/report.md), written and read again. */
#pragma once
#include "ir/base.h"

/* template.c, of page/: what stands before the data and behind them. */
extern const unsigned char page_head[], page_tail[];
extern const size_t page_head_bytes, page_tail_bytes;

/* The elements of a page, each JSON. */
typedef enum { ELEMENT_PLAN, ELEMENT_RUN, ELEMENT_OTHER, NELEMENTS } Element;
typedef struct Page {
    Text element[NELEMENTS]; /* on the heap; empty: it is not there */
} Page;
void page_finish(Page *page);
void page_print(Text *text, const Page *page);
/* Reads the elements of a page. False: the text is none. */
bool page_read(Page *page, const char *text, size_t n);
/* The plan's checksum, as the data say it; "": they say none of 16 digits. In digits: 17 bytes. */
void page_checksum(const Page *page, char *digits);
