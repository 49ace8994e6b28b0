// The entry point that every test program shares: Boost.Test's own main, with all of its options.
#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE spillway
#include <boost/test/unit_test.hpp>
