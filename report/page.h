/* report/page: the HTML file around the data (docs/report.md), written and read again. */
#pragma once
#include "ir/base.h"

/* template.c, made from page/: the HTML before and after the data. */
extern const unsigned char page_head[], page_tail[];
extern const size_t page_head_bytes, page_tail_bytes;

/* The elements of a page, each JSON. */
typedef enum { ELEMENT_PLAN, ELEMENT_RUN, ELEMENT_OTHER, NELEMENTS } Element;
typedef struct Page {
    Text element[NELEMENTS]; /* on the heap; empty: it is not there */
} Page;
void page_finish(Page *page);
void page_print(Text *text, const Page *page);
/* Reads the elements of a page. False: the text is not a page. */
bool page_read(Page *page, const char *text, size_t n);
/* The plan's checksum from the data; "": there is none of 16 digits. digits: 17 bytes. */
void page_checksum(const Page *page, char *digits);
