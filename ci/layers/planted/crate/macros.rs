#[macro_export]
macro_rules! told {
    ($path:path) => {
        $crate::bottom::dig(); // finds import
        struct $name;
        struct Hidden; // finds name
    };
}
